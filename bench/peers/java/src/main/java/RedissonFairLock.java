import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's fair lock, which is first come, first served, as Tenure is. Defaults except the ttl. */
final class RedissonFairLock implements Worker.Locker {
  private final RedissonClient client;

  private RedissonFairLock(RedissonClient client) {
    this.client = client;
  }

  static RedissonFairLock open(String url, int ttlMs) {
    Config config = new Config();
    // lock() without a time is renewed at every third of this.
    config.setLockWatchdogTimeout(ttlMs);
    config.useSingleServer().setAddress(url);
    return new RedissonFairLock(Redisson.create(config));
  }

  @Override
  public Worker.Unlock lock(String resource) {
    RLock lock = client.getFairLock(resource);
    lock.lock();
    return lock::unlock;
  }

  /** Redisson does not know without a request. */
  @Override
  public boolean isLost() {
    return false;
  }
}
