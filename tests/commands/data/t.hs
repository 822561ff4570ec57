import qualified Data.Map as M
main :: IO ()
main = print (M.size (M.fromList [(show i, i) | i <- [1 .. 20000 :: Int]]))
