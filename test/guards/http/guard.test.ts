// Goal: on every framework, a handler runs only for a token that is not stale, and neither during
// nor after a handler with a newer token in the same process. Method: real servers on loopback and
// the real fetch; the effects of the handlers are compared.

import { describe, expect, test } from "vitest";
import { memoryGuard } from "../../../src/guards/memory/index.ts";
import { currentLease } from "../../../src/index.ts";
import { plain, put, services, waitFor } from "../../support/guards/http-services.ts";

describe.each(Object.entries(services))("the HTTP guard on %s", (_name, start) => {
  test("S2: admits equal and newer tokens, and answers a stale one with 409 and both tokens", async () => {
    const done: string[] = [];
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, (body) =>
      done.push(body),
    );
    expect(await (await put(url, plain(5), "five")).text()).toBe("done");
    expect((await put(url, plain(5), "five again")).status).toBe(200);
    const large = 2n ** 100n;
    expect((await put(url, plain(large), "large")).status).toBe(200);
    const late = await put(url, plain(large - 1n), "late");
    expect(late.status).toBe(409);
    expect(late.headers.get("content-type")).toMatch("application/problem+json");
    expect(await late.json()).toMatchObject({
      type: "urn:tenure:stale-token",
      status: 409,
      resource: "settlement",
      offered: String(large - 1n),
      highest: String(large),
    });
    expect(done).toEqual(["five", "five again", "large"]);
  });

  test("a missing token is answered with 428, one for another resource with 403, a malformed one with 400", async () => {
    const done: string[] = [];
    const guard = memoryGuard();
    const url = await start({ guard, resource: "settlement" }, (body) => done.push(body));
    const answers = [
      [undefined, 428],
      ["", 428],
      [plain(5, "other"), 403],
      ["4720", 400],
      [plain("1.5"), 400],
      [plain("-1"), 400],
      [plain("0"), 400],
      [plain("1e3"), 400],
      [plain("9".repeat(39)), 400],
      [plain("1".repeat(40)), 400],
      [`${plain(5)}, ${plain(6)}`, 400],
      [`${plain(5)}; x=1`, 400],
      ["token=5", 400],
      ["resource=settlement, token=5", 400],
      [`resource="${"x".repeat(2_000)}", token=5`, 400],
      ['signed="tenure1.a.b.c"', 400],
    ] as const;
    for (const [header, status] of answers) {
      const answer = await put(url, header);
      expect([header, answer.status]).toEqual([header, status]);
      expect(answer.headers.get("content-type")).toMatch("application/problem+json");
      expect(await answer.json()).toMatchObject({ status });
    }
    expect(done).toEqual([]);
    expect(guard.highest("settlement")).toBeUndefined();
  });

  test("guards inside the handler find the token, and currentLease() is undefined there", async () => {
    const inner = memoryGuard();
    let lease: unknown = "not asked";
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      lease = currentLease();
      inner.write(() => undefined);
    });
    expect((await put(url, plain(7))).status).toBe(200);
    expect(inner.highest("settlement")).toBe(7n);
    expect(lease).toBeUndefined();
  });

  test("S2: a newer token waits for the handlers of older ones, and no new one of these starts", async () => {
    const story: string[] = [];
    let finish = (): void => undefined;
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, async (body) => {
      story.push(`begin ${body}`);
      if (body === "old") {
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
      }
      story.push(`end ${body}`);
    });
    const old = put(url, plain(1), "old");
    await waitFor(() => story.length === 1);
    // Requests of the same term run concurrently.
    expect((await put(url, plain(1), "twin")).status).toBe(200);
    const newer = put(url, plain(2), "new");
    // Rejected as soon as the newer request was admitted, although its handler has not started.
    await waitFor(async () => (await put(url, plain(1), "late")).status === 409);
    const begun = story.filter((line) => line === "begin new");
    finish();
    expect((await old).status).toBe(200);
    expect((await newer).status).toBe(200);
    expect(begun).toEqual([]);
    const order = story.filter((line) => !line.endsWith("twin") && !line.endsWith("late"));
    expect(order).toEqual(["begin old", "end old", "begin new", "end new"]);
    // A "late" before the newer one was admitted correctly. None comes after it.
    expect(story.indexOf("begin new")).toBeGreaterThan(story.lastIndexOf("end late"));
  });
});
