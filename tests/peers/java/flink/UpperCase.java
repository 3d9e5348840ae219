import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies a topic in upper case, exactly once, and ends at the offsets at which the source topic ended when it started:
 * BOOTSTRAP SOURCE TARGET GROUP. It reads committed records only, commits its offsets for GROUP with every checkpoint, and
 * writes in transactions that a checkpoint commits.
 */
public final class UpperCase {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(2);
        flink.enableCheckpointing(500);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(arguments[0])
            .setTopics(arguments[1])
            .setGroupId(arguments[3])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setProperty("isolation.level", "read_committed")
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(arguments[0])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(arguments[3])
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(arguments[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source").map(String::toUpperCase).sinkTo(sink);
        flink.execute();
    }
}
