// A member of a group by franz-go. It writes down what it is assigned, handed and has committed; it leaves at the end
// of its input.
//
//	franz_go BOOTSTRAP GROUP TOPIC NAME LOG ASSIGNOR SESSION_TIMEOUT_MS
//
// With fewer arguments it is a client with transactions: see transactions.go.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type journal struct{ file *os.File }

func (j journal) write(event string, fields map[string]any) {
	fields["event"], fields["at_ms"] = event, time.Now().UnixMilli()
	line, err := json.Marshal(fields)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) < 8 {
		transactions(os.Args[1:])
		return
	}
	bootstrap, group, topic, name, path, assignor := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	sessionTimeoutMs, err := strconv.Atoi(os.Args[7])
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	j := journal{file}
	balancer := kgo.RangeBalancer()
	if assignor == "roundrobin" {
		balancer = kgo.RoundRobinBalancer()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.Balancers(balancer),
		kgo.SessionTimeout(time.Duration(sessionTimeoutMs)*time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(sessionTimeoutMs)*time.Millisecond/6),
		kgo.RebalanceTimeout(20*time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMaxAge(2*time.Second),
		kgo.MetadataMinAge(time.Second),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
			member, generation := client.GroupMetadata()
			j.write("assigned", map[string]any{"member": member, "generation": generation, "partitions": list(assigned[topic])})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			j.write("revoked", map[string]any{"partitions": list(revoked[topic])})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			j.write("lost", map[string]any{"partitions": list(lost[topic])})
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 200)
		fetches.EachError(func(_ string, _ int32, err error) { log.Println("fetch:", err) })
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			offsets := []int64{}
			for _, record := range fetched.Records {
				offsets = append(offsets, record.Offset)
			}
			if len(offsets) > 0 {
				j.write("handed", map[string]any{"partition": fetched.Partition, "offsets": offsets})
			}
		})
		if uncommitted := client.UncommittedOffsets(); len(uncommitted) > 0 {
			client.CommitOffsetsSync(ctx, uncommitted, j.committed)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	j.write("left", map[string]any{})
}

func list(partitions []int32) []int32 {
	return append([]int32{}, partitions...)
}

// committed writes down the offsets that the coordinator took.
func (j journal) committed(_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
	if err != nil {
		log.Println("commit:", err)
		return
	}
	asked := map[int32]int64{}
	for _, topic := range request.Topics {
		for _, partition := range topic.Partitions {
			asked[partition.Partition] = partition.Offset
		}
	}
	offsets := map[string]int64{}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if partition.ErrorCode == 0 {
				offsets[strconv.Itoa(int(partition.Partition))] = asked[partition.Partition]
			} else {
				log.Println("commit: error code", partition.ErrorCode)
			}
		}
	}
	if len(offsets) > 0 {
		j.write("committed", map[string]any{"offsets": offsets})
	}
}
