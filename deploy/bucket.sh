# The bucket, and what its users may do: an edge puts, a collector takes.
mc alias set store http://store:9000 "$MINIO_ROOT_USER" "$MINIO_ROOT_PASSWORD"
mc mb --ignore-existing store/segments
allow() { printf '{"Effect": "Allow", "Action": [%s], "Resource": ["arn:aws:s3:::segments%s"]}' "$1" "$2"; }
add() {
    printf '{"Version": "2012-10-17", "Statement": [%s]}' "$3" >"/tmp/$1.json"
    mc admin policy create store "$1" "/tmp/$1.json"
    mc admin user add store "$1" "$2"
    mc admin policy attach store "$1" --user "$1" || true # it has it already
}
add edge "$EDGE_SECRET" "$(allow '"s3:PutObject"' '/edges/*')"
add collector "$COLLECTOR_SECRET" \
    "$(allow '"s3:ListBucket"' ''), $(allow '"s3:GetObject", "s3:PutObject", "s3:DeleteObject"' '/edges/*')"
