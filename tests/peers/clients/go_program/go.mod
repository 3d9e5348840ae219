module kafka-zk/tests/peers/program

go 1.26.0
