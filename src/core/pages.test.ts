// Goal: a list ends even if the backend reports a wrong start for the next page. Method: pages from
// a function.
import { expect, test } from "vitest";
import { StoreUnusableError } from "./errors.ts";
import { everyPage } from "./pages.ts";

/** The pages, by where they start. */
async function read(pages: Readonly<Record<string, string | undefined>>): Promise<string[]> {
  const starts: string[] = [];
  const all = everyPage(async (after) => {
    starts.push(after ?? "-");
    return { next: pages[after ?? "-"] };
  });
  for await (const _ of all) if (starts.length > 100) throw new Error("endless");
  return starts;
}

test("every page is read once, in order", async () => {
  expect(await read({ "-": "a", a: "b", b: undefined })).toEqual(["-", "a", "b"]);
});

test.each([
  ["the same page again", { "-": "a", a: "a" }],
  ["an earlier page", { "-": "a", a: "b", b: "a" }],
])("S8: %s is an error, not an endless list", async (_, pages) => {
  await expect(read(pages)).rejects.toThrow(StoreUnusableError);
});
