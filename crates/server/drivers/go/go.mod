module drivers

go 1.23.0

require github.com/jackc/pgx/v5 v5.7.5
