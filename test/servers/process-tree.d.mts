// Types of process-tree.mjs, which is plain JavaScript.
export function startedAt(pid: number): string | undefined;
export function isRunning(pid: number): boolean;
export function findTree(pid: number): number[];
export function readCpuSeconds(pid: number): number;
export function stopTree(pid: number): Promise<void>;
export function waitUntilStopped(pid: number): Promise<void>;
export function continueTree(pid: number): void;
export function killTree(pid: number): Promise<void>;
