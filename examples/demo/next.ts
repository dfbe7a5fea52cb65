// The commands that the demo suggests when it ends.

export const NEXT_STEPS = `
Next:
  npm test                      all tests
  npm run sim -- settlement     a similar outage in the simulator, as a web page
  npm run bench                 what a lease costs in time
  less docs/walk.md             how Tenure works, file by file`;
