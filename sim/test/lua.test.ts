// Goal: the scripts that run inside of the model of Redis do there what they do in Redis. Method:
// small scripts with the answers of a real server (test/stores/redis/lua.test.ts asks it); what is
// not in our Lua is refused, never guessed.
import { describe, expect, test } from "vitest";
import { scriptDigest } from "../../src/clients/redis/digest.ts";
import { luaSnippets } from "../../test/support/stores/lua-snippets.ts";
import { type Link, RedisServer } from "../models/redis/server.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const nobody: Link = { isDead: false, push: () => undefined, end: () => undefined };

function server(): (text: string, args?: readonly string[]) => unknown {
  const schedule = new Schedule();
  const chance = new Chance("lua");
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name: "store" });
  const program = new Program({ name: "store", schedule, clocks, chance });
  const redis = new RedisServer(program, new Trace(() => schedule.now));
  return (text, args = []) => {
    const answer = redis.handle(["eval", text, "0", ...args], nobody);
    if ("error" in answer) throw new Error(answer.error);
    return answer.value;
  };
}

const run = server();

test.each(luaSnippets)("$text", ({ text, args, answer }) => {
  if (answer !== null && typeof answer === "object" && "error" in answer)
    expect(() => run(text, args)).toThrow(answer.error);
  else expect(run(text, args)).toEqual(answer);
});

describe("refused", () => {
  test.each([
    ["a method", "return ('x'):len()"],
    ["an unknown library", "return os.time()"],
    ["an unknown function", "return string.rep('x', 3)"],
    ["a global that is set", "x = 1"],
    [
      "a function that keeps a local of the loop around it",
      "for i = 1, 2 do local f = function() return i end end",
    ],
    ["varargs", "local function f(...) return 1 end"],
    ["a long text", "return [[x]]"],
    ["a block without an end", "if true then return 1"],
    ["an unknown pattern", "return string.match('(x)', '%b()')"],
    ["an unknown format", "return string.format('%5.2f', 1)"],
    ["an unknown command", "return redis.call('FLUSHALL')"],
    [
      "an option of a command that the model does not have",
      "return redis.call('SET', 'k', 'v', 'NX')",
    ],
  ])("%s", (_, text) => {
    expect(() => run(text)).toThrow();
  });
});

test("a script is known by its digest until the server restarts, and then by its text again", () => {
  const schedule = new Schedule();
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name: "store" });
  const chance = new Chance("lua");
  const program = new Program({ name: "store", schedule, clocks, chance });
  const redis = new RedisServer(program, new Trace(() => schedule.now));
  const sha = scriptDigest("return 1");
  expect(redis.handle(["eval", "return 1", "0"], nobody)).toEqual({ value: 1 });
  expect(redis.handle(["evalsha", sha, "0"], nobody)).toEqual({ value: 1 });
  redis.restart();
  expect(redis.handle(["evalsha", sha, "0"], nobody)).toEqual({
    error: expect.stringMatching(/^NOSCRIPT/) as string,
  });
  expect(redis.handle(["eval", "return 1", "0"], nobody)).toEqual({ value: 1 });
  expect(redis.handle(["evalsha", sha, "0"], nobody)).toEqual({ value: 1 });
});
