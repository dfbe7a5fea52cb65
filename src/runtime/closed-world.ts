// While the simulator runs, nothing may reach the real world: clocks, chance, timers and sockets throw. What slipped
// through would make a seed run differently each time, and nobody would see why.

import net from "node:net";

type Holder = Record<string, unknown>;

/** What is closed, and where it hangs. */
function doors(): readonly (readonly [Holder, string])[] {
  const of = (holder: unknown): Holder => holder as Holder;
  return [
    [of(Date), "now"],
    [of(performance), "now"],
    [of(Math), "random"],
    [of(process), "hrtime"],
    [of(globalThis), "setTimeout"],
    [of(globalThis), "setInterval"],
    [of(globalThis), "setImmediate"],
    [of(globalThis), "fetch"],
    [of(crypto), "randomUUID"],
    [of(crypto), "getRandomValues"],
    [of(net.Socket.prototype), "connect"],
  ];
}

/** Closes the real world; returns the function that opens it again. */
export function closeWorld(): () => void {
  const { stackTraceLimit } = Error;
  // Most errors in the world are planned, and a stack costs more than the rest of one.
  Error.stackTraceLimit = 0;
  const reopen = doors().map(([holder, name]) => {
    const own = Object.getOwnPropertyDescriptor(holder, name);
    const refuse = (): never => {
      Error.stackTraceLimit = 20;
      throw new Error(
        `${name} was used inside the simulated world. Take time and chance from Clock and Random.`,
      );
    };
    Object.defineProperty(holder, name, { value: refuse, configurable: true, writable: true });
    return () => {
      if (own === undefined) delete holder[name];
      else Object.defineProperty(holder, name, own);
    };
  });
  return () => {
    for (const open of reopen) open();
    Error.stackTraceLimit = stackTraceLimit;
  };
}
