// The types of readme-links.mjs, which is plain JavaScript because npm runs it when it packs.
export function absolute(text: string): string;
export function relative(text: string): string;
