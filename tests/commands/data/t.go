package main

import (
	"fmt"
	"sync"
)

func main() {
	var group sync.WaitGroup
	var lock sync.Mutex
	all := map[string]int{}
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 1000; j++ {
				lock.Lock()
				all[fmt.Sprint(i, j)] = j
				lock.Unlock()
			}
		}(i)
	}
	group.Wait()
	fmt.Println(len(all))
}
