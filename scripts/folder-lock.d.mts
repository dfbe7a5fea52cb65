// The types of folder-lock.mjs, which runs before anything is installed and so stays plain JavaScript.
export function withFolderLock<T>(
  folder: string,
  onWait: (pid: number) => void,
  work: () => Promise<T>,
): Promise<T>;
