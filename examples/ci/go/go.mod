module example/upper

go 1.19
