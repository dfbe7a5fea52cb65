// Goal: the expected answers that the simulator's Lua is tested with are those of Redis. Method:
// run the same small scripts on a real server.
import { expect, test } from "vitest";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { luaSnippets } from "../../support/stores/lua-snippets.ts";

const redis = useServer(startRedis, { own: true });

test.each(luaSnippets)(
  "Redis gives the listed answer to: $text",
  async ({ text, args = [], answer }) => {
    const asked = redis().command("EVAL", text, "0", ...args);
    if (answer !== null && typeof answer === "object" && "error" in answer)
      await expect(asked).rejects.toThrow(answer.error);
    else expect(await asked).toEqual(answer);
  },
);
