//go:build containers

// Runs loseAnswer with ZooKeeper and a broker in containers: go run -tags containers .
package main

import (
	"context"
	"log"
	"os"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

const token = "a-token-of-this-test-only"

func image(variable, usual string) string {
	if given := os.Getenv(variable); given != "" {
		return given
	}
	return usual
}

func run(ctx context.Context) error {
	net, err := network.New(ctx)
	if err != nil {
		return err
	}
	defer net.Remove(ctx)
	zookeeper, err := testcontainers.Run(ctx, image("ZOOKEEPER_IMAGE", "zookeeper:3.9"),
		network.WithNetwork([]string{"zookeeper"}, net))
	defer testcontainers.TerminateContainer(zookeeper)
	if err != nil {
		return err
	}
	published := nat.PortMap{
		"29092/tcp": {{HostIP: "127.0.0.1", HostPort: "29092"}},
		"9600/tcp":  {{HostIP: "127.0.0.1", HostPort: "9600"}},
	}
	broker, err := testcontainers.Run(ctx, image("KAFKA_ZK_IMAGE", "kafka-zk:0.1.0"),
		network.WithNetwork([]string{"broker"}, net),
		testcontainers.WithExposedPorts("29092/tcp", "9600/tcp"),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) { host.PortBindings = published }),
		testcontainers.WithEnv(map[string]string{
			"KAFKA_ZOOKEEPER_CONNECT":    "zookeeper:2181",
			"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:29092",
			"KAFKA_ZK_FAULTS_PORT":       "9600",
			"KAFKA_ZK_FAULTS_TOKEN":      token,
		}),
		testcontainers.WithWaitStrategy(wait.ForLog("started broker_id")))
	defer testcontainers.TerminateContainer(broker)
	if err != nil {
		return err
	}
	return loseAnswer("127.0.0.1:29092", faults{"http://127.0.0.1:9600", token}, "orders")
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
