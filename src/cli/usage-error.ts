// A command line that makes no sense: said in one sentence with what to change, exit code 2.

export class UsageError extends Error {}
