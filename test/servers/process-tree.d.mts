// The types of process-tree.mjs, which stays plain JavaScript.
export function startedAt(pid: number): string | undefined;
export function isRunning(pid: number): boolean;
export function treeOf(pid: number): number[];
export function cpuSecondsOf(pid: number): number;
export function stopTree(pid: number): Promise<void>;
export function hasStopped(pid: number): Promise<void>;
export function continueTree(pid: number): void;
export function killTree(pid: number): Promise<void>;
