// Goal: scripts have the same results in the model of Redis as in Redis. Method: small scripts with
// the answers of a real server (test/stores/redis/lua.test.ts compares them). Lua features that the
// model lacks are rejected.
import { describe, expect, test } from "vitest";
import { sha1Hex } from "../../src/clients/redis/digest.ts";
import { luaSnippets } from "../../test/support/stores/lua-snippets.ts";
import { type Link, RedisServer } from "../models/redis/server.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const noLink: Link = { isDead: false, push: () => undefined, end: () => undefined };

function server(): (text: string, args?: readonly string[]) => unknown {
  const schedule = new Schedule();
  const chance = new Chance("lua");
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name: "store" });
  const program = new Program({ name: "store", schedule, clocks, chance });
  const redis = new RedisServer(program, new Trace(() => schedule.now));
  return (text, args = []) => {
    const answer = redis.handle(["eval", text, "0", ...args], noLink);
    if ("error" in answer) throw new Error(answer.error);
    return answer.value;
  };
}

const run = server();

test.each(luaSnippets)("gives the answer of a real server: $text", ({ text, args, answer }) => {
  if (answer !== null && typeof answer === "object" && "error" in answer)
    expect(() => run(text, args)).toThrow(answer.error);
  else expect(run(text, args)).toEqual(answer);
});

describe("the model rejects", () => {
  test.each([
    ["a method", "return ('x'):len()"],
    ["an unknown library", "return os.time()"],
    ["an unknown function", "return string.rep('x', 3)"],
    ["an assignment to a global", "x = 1"],
    ["a closure over a loop variable", "for i = 1, 2 do local f = function() return i end end"],
    ["varargs", "local function f(...) return 1 end"],
    ["a long string", "return [[x]]"],
    ["a block without an end", "if true then return 1"],
    ["an unknown pattern", "return string.match('(x)', '%b()')"],
    ["an unknown format", "return string.format('%5.2f', 1)"],
    ["an unknown command", "return redis.call('FLUSHALL')"],
    ["an unknown option of a command", "return redis.call('SET', 'k', 'v', 'NX')"],
  ])("%s", (_, text) => {
    expect(() => run(text)).toThrow();
  });
});

test("the server knows a script by its digest until it restarts", () => {
  const schedule = new Schedule();
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name: "store" });
  const chance = new Chance("lua");
  const program = new Program({ name: "store", schedule, clocks, chance });
  const redis = new RedisServer(program, new Trace(() => schedule.now));
  const sha = sha1Hex("return 1");
  expect(redis.handle(["eval", "return 1", "0"], noLink)).toEqual({ value: 1 });
  expect(redis.handle(["evalsha", sha, "0"], noLink)).toEqual({ value: 1 });
  redis.restart();
  expect(redis.handle(["evalsha", sha, "0"], noLink)).toEqual({
    error: expect.stringMatching(/^NOSCRIPT/) as string,
  });
  expect(redis.handle(["eval", "return 1", "0"], noLink)).toEqual({ value: 1 });
  expect(redis.handle(["evalsha", sha, "0"], noLink)).toEqual({ value: 1 });
});
