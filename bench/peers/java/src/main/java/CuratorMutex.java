import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex. Defaults except the session's timeout. */
final class CuratorMutex implements Worker.Locker {
  private static final int CONNECT_MAX_MS = 15_000;
  private final CuratorFramework client;
  private volatile boolean isLost;

  private CuratorMutex(CuratorFramework client) {
    this.client = client;
    client
        .getConnectionStateListenable()
        .addListener((from, state) -> isLost |= state == ConnectionState.LOST);
  }

  static CuratorMutex open(String url, int ttlMs) throws Exception {
    String hosts = url.replace("zookeeper://", "");
    ExponentialBackoffRetry retry = new ExponentialBackoffRetry(100, 3);
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(hosts, ttlMs, CONNECT_MAX_MS, retry);
    client.start();
    client.blockUntilConnected();
    return new CuratorMutex(client);
  }

  @Override
  public Worker.Unlock lock(String resource) throws Exception {
    InterProcessMutex mutex = new InterProcessMutex(client, "/curator/" + resource);
    mutex.acquire();
    return mutex::release;
  }

  @Override
  public boolean isLost() {
    return isLost;
  }
}
