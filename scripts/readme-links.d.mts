// The types of readme-links.mjs, which npm runs as plain JavaScript when it packs.
export function absolute(text: string): string;
export function relative(text: string): string;
