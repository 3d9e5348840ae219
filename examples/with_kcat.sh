#!/bin/sh
# Keys, headers and partitions with kcat: sh examples/with_kcat.sh [HOST:PORT] [TOPIC]
set -eu
bootstrap="${1:-127.0.0.1:9092}"
topic="${2:-examples.kcat}"

kcat -b "$bootstrap" -L -t "$topic" > /dev/null # asking for a topic creates it (auto.create.topics.enable)
printf 'en:hello\nfr:bonjour\n' | kcat -b "$bootstrap" -P -t "$topic" -p 0 -K : -H source=kcat -z lz4
kcat -b "$bootstrap" -C -t "$topic" -p 0 -o beginning -e -q -f '%o %k %s %h\n'
