// Serves a FUSE file system at settings.folder until it is killed. The file system contains one
// empty file, "file", and implements only the requests that the kernel needs for that.
import { spawnSync } from "node:child_process";
import { openSync, read, writeSync } from "node:fs";
import { report, settings } from "./kit.mjs";

const [ROOT, FILE] = [1n, 2n];
const [LOOKUP, FORGET, GETATTR, STATFS, INIT, INTERRUPT, BATCH_FORGET] = [1, 2, 3, 17, 26, 36, 42];
const [NO_SUCH_FILE, NOT_IMPLEMENTED] = [2, 38];
const UNANSWERED = [FORGET, INTERRUPT, BATCH_FORGET];
const HEADER_BYTES = 40;

function encodeAttributes(node) {
  const bytes = Buffer.alloc(88);
  bytes.writeBigUInt64LE(node, 0);
  bytes.writeUInt32LE(node === ROOT ? 0o40755 : 0o100644, 60);
  bytes.writeUInt32LE(node === ROOT ? 2 : 1, 64);
  return bytes;
}

/** Returns the body of the reply, or the number of an error. */
function reply(opcode, node, body) {
  if (opcode === INIT) {
    const bytes = Buffer.alloc(64);
    for (const [index, value] of [7, 31, 0, 0, 0, 4096].entries())
      bytes.writeUInt32LE(value, 4 * index);
    return bytes;
  }
  if (opcode === GETATTR) return Buffer.concat([Buffer.alloc(16), encodeAttributes(node)]);
  if (opcode === STATFS) return Buffer.alloc(80);
  if (opcode !== LOOKUP) return NOT_IMPLEMENTED;
  if (body.toString("latin1", 0, body.indexOf(0)) !== "file") return NO_SUCH_FILE;
  const entry = Buffer.alloc(40);
  entry.writeBigUInt64LE(FILE, 0);
  return Buffer.concat([entry, encodeAttributes(FILE)]);
}

function handle(request) {
  const opcode = request.readUInt32LE(4);
  if (UNANSWERED.includes(opcode)) return;
  const answer = reply(opcode, request.readBigUInt64LE(16), request.subarray(HEADER_BYTES));
  const isError = typeof answer === "number";
  const header = Buffer.alloc(16);
  header.writeUInt32LE(16 + (isError ? 0 : answer.length), 0);
  header.writeInt32LE(isError ? -answer : 0, 4);
  request.copy(header, 8, 8, 16);
  writeSync(device, isError ? header : Buffer.concat([header, answer]));
}

const device = openSync("/dev/fuse", "r+");
const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
const mounting = spawnSync(
  "mount",
  ["-i", "-t", "fuse", "-o", options, "tenure-test", settings.folder],
  { stdio: ["ignore", "pipe", "pipe", device], encoding: "utf8" },
);
if (mounting.status !== 0) {
  report("ready", { error: mounting.stderr.trim() });
} else {
  const buffer = Buffer.alloc(1 << 20);
  const next = () =>
    read(device, buffer, 0, buffer.length, null, (error, length) => {
      if (error) process.exit(1);
      handle(buffer.subarray(0, length));
      next();
    });
  next();
  report("ready");
}
