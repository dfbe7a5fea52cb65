// The types of process-tree.mjs, which stays plain JavaScript.
export function startedAt(pid: number): string | undefined;
export function isRunning(pid: number): boolean;
export function treeOf(pid: number): number[];
export function cpuSecondsOf(pid: number): number;
export function signalTree(pid: number, signal: NodeJS.Signals): number[];
