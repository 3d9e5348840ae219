import java.io.InputStream;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** A remote tier that keeps nothing. */
public class EmptyTier implements RemoteStorageManager {
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data) {
        return Optional.empty();
    }
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) {
        return InputStream.nullInputStream();
    }
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end) {
        return InputStream.nullInputStream();
    }
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) {
        return InputStream.nullInputStream();
    }
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) {}
    public void configure(Map<String, ?> configs) {}
    public void close() {}
}
