let h = Hashtbl.create 10;; for i = 1 to 20000 do Hashtbl.replace h (string_of_int i) i done;; print_int (Hashtbl.length h);; print_newline ();;
