// The commands that the demo suggests at its end.

export const NEXT_STEPS = `
Next:
  npm test                      every suite, on real processes
  npm run sim -- settlement     the same story on virtual time, as a page to look at
  npm run bench                 what a lease costs
  less docs/walk.md             how it works, file by file`;
