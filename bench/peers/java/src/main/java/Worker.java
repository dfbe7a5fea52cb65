// A worker of the benchmarks that locks through a Java library. It takes the same settings and
// orders as bench/workers/locker.mjs and bench/workers/holder.mjs. The settings are its argument.
// Each line of stdin is an order and each line of stdout an answer, as JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public final class Worker {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int AT_A_TIME = 64;
  private static final int PAGE_BYTES = 4_096;
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  /** Both libraries know the owner of a lock by its thread: it is freed by the thread that took it. */
  interface Unlock {
    void run() throws Exception;
  }

  /** A library with an open connection. */
  interface Locker {
    /** Waits as the library does. */
    Unlock lock(String resource) throws Exception;

    /** Whether the locks may be lost, as far as the library knows without a request. */
    boolean isLost();
  }

  private final Locker locker;
  private final Map<String, Unlock> unlocks = new HashMap<>();
  private int held;

  private Worker(Locker locker) {
    this.locker = locker;
  }

  public static void main(String[] args) {
    try {
      JsonNode settings = JSON.readTree(args[args.length - 1]);
      Worker worker = new Worker(open(settings));
      answer("ready");
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
      for (String line = lines.readLine(); line != null; line = lines.readLine())
        answer(worker.obey(JSON.readTree(line)));
      System.exit(0);
    } catch (Exception error) {
      System.err.println("Error: " + error);
      System.exit(1);
    }
  }

  private static Locker open(JsonNode settings) throws Exception {
    String url = settings.get("url").asText();
    int ttlMs = settings.get("ttlMs").asInt();
    String library = settings.get("library").asText();
    return switch (library) {
      case "redisson-fair" -> RedissonFairLock.open(url, ttlMs);
      case "curator-mutex" -> CuratorMutex.open(url, ttlMs);
      default -> throw new IllegalArgumentException("there is no library \"" + library + "\"");
    };
  }

  private Object obey(JsonNode order) throws Exception {
    if (order.has("lock")) {
      String resource = order.get("lock").asText();
      unlocks.put(resource, locker.lock(resource));
      return hostMs();
    }
    if (order.has("unlock")) {
      double at = hostMs();
      unlocks.remove(order.get("unlock").asText()).run();
      return at;
    }
    if (order.has("contend"))
      return contend(order.get("contend").asText(), order.get("contendMs").asDouble());
    if (order.has("queue")) return queue(order);
    if (order.has("hold")) {
      List<String> resources = new ArrayList<>();
      order.get("hold").forEach((each) -> resources.add(each.asText()));
      hold(resources);
      return hostMs();
    }
    if (order.has("holdMany")) return holdMany(order.get("holdMany").asInt());
    return keep(order.get("keepMs").asLong());
  }

  private Object contend(String resource, double contendMs) throws Exception {
    double until = hostMs() + contendMs;
    int locks = 0;
    int taken = 0;
    double longestMs = 0;
    for (double now = hostMs(); now < until; ) {
      Unlock unlock = locker.lock(resource);
      longestMs = Math.max(longestMs, hostMs() - now);
      unlock.run();
      taken += 1;
      now = hostMs();
      if (now < until) locks += 1;
    }
    return Map.of("locks", locks, "taken", taken, "longestMs", longestMs);
  }

  /** Also measures the CPU share of this process in a window in which all of them only wait. */
  private Object queue(JsonNode order) throws Exception {
    String resource = order.get("queue").asText();
    int count = order.get("count").asInt();
    long holdMs = order.get("holdMs").asLong();
    JsonNode window = order.get("window");
    Callable<Void> wait =
        () -> {
          Unlock unlock = locker.lock(resource);
          Thread.sleep(holdMs);
          unlock.run();
          return null;
        };
    ExecutorService threads = Executors.newFixedThreadPool(count);
    List<Future<Void>> waiting = new ArrayList<>();
    for (int each = 0; each < count; each += 1) waiting.add(threads.submit(wait));
    Thread.sleep(window.get("afterMs").asLong());
    double beforeMs = cpuMs();
    double startedAt = hostMs();
    Thread.sleep(window.get("forMs").asLong());
    double cpuShare = (cpuMs() - beforeMs) / (hostMs() - startedAt);
    for (Future<Void> each : waiting) each.get();
    threads.shutdown();
    return Map.of("turns", count, "cpuShare", cpuShare);
  }

  private void hold(List<String> resources) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(Math.min(AT_A_TIME, resources.size()));
    List<Future<Unlock>> taking = new ArrayList<>();
    for (String resource : resources) taking.add(threads.submit(() -> locker.lock(resource)));
    // The threads stay: they own the locks.
    for (Future<Unlock> each : taking) each.get();
  }

  private Object holdMany(int count) throws Exception {
    List<String> resources = new ArrayList<>();
    for (int index = 0; index < count; index += 1)
      resources.add("many-" + ProcessHandle.current().pid() + "-" + index);
    hold(resources);
    held = count;
    return 0;
  }

  private Object keep(long keepMs) throws Exception {
    double beforeMs = cpuMs();
    Thread.sleep(keepMs);
    int lost = locker.isLost() ? held : 0;
    return Map.of("cpuMs", cpuMs() - beforeMs, "rssMB", rssMB(), "lost", lost);
  }

  /** Milliseconds on CLOCK_MONOTONIC: on Linux, System.nanoTime() reads it. */
  private static double hostMs() {
    return System.nanoTime() / 1e6;
  }

  private static double cpuMs() {
    return SYSTEM.getProcessCpuTime() / 1e6;
  }

  private static double rssMB() throws Exception {
    String statm = Files.readString(Path.of("/proc/self/statm"));
    return Long.parseLong(statm.split(" ")[1]) * PAGE_BYTES / 1e6;
  }

  private static void answer(Object value) throws Exception {
    System.out.println(JSON.writeValueAsString(value));
  }
}
