module example.test/program

go 1.26.0
