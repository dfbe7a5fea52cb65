// The types of folder-lock.mjs, which is plain JavaScript because it runs before the installation.
export function withFolderLock<T>(
  folder: string,
  onWait: (pid: number) => void,
  work: () => Promise<T>,
): Promise<T>;
