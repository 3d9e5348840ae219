"""``python -m kafka_zk`` is the command line ``kafka-zk``."""

from kafka_zk.cli.main import main

if __name__ == "__main__":
    main()
