import java.io.File;
import java.util.Base64;
import java.util.TreeSet;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.TxnLog.TxnIterator;

/**
 * What ZooKeeper's own code makes of its transaction log: all znodes after each of the given zxids, in their order.
 *
 * Arguments: the dataDir, then zxids. Prints "zxid N", and below it for each znode: path, data ("-" for null), version,
 * czxid, mzxid, mtime, ephemeral owner; path and data in base 64.
 */
public final class StateAt {
    public static void main(String[] arguments) throws Exception {
        TreeSet<Long> wanted = new TreeSet<>();
        for (int index = 1; index < arguments.length; index++) {
            wanted.add(Long.parseLong(arguments[index]));
        }
        DataTree tree = new DataTree();
        TxnIterator transactions = new FileTxnLog(new File(arguments[0], "version-2")).read(1);
        do {
            if (transactions.getHeader() == null) {
                break;
            }
            while (!wanted.isEmpty() && wanted.first() < transactions.getHeader().getZxid()) {
                print(tree, wanted.pollFirst());
            }
            tree.processTxn(transactions.getHeader(), transactions.getTxn());
        } while (transactions.next());
        while (!wanted.isEmpty()) {
            print(tree, wanted.pollFirst());
        }
    }

    private static void print(DataTree tree, long zxid) {
        System.out.println("zxid " + zxid);
        printBelow(tree, "/");
    }

    private static void printBelow(DataTree tree, String path) {
        DataNode node = tree.getNode(path);
        Stat stat = new Stat();
        node.copyStat(stat);
        byte[] data = node.getData();
        System.out.println(String.join(" ", encoded(path.getBytes()), data == null ? "-" : encoded(data),
            "" + stat.getVersion(), "" + stat.getCzxid(), "" + stat.getMzxid(), "" + stat.getMtime(),
            "" + stat.getEphemeralOwner()));
        for (String name : node.getChildren()) {
            printBelow(tree, (path.equals("/") ? "" : path) + "/" + name);
        }
    }

    private static String encoded(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes) + ".";
    }
}
