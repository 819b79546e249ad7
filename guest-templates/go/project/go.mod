module {{name_snake}}

go 1.24
