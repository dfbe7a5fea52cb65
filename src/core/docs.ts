// Where messages send the reader for more. The pages are not in the npm package, so it is an address and no path.

export const DOCS = "https://github.com/tenure-dev/tenure/blob/HEAD/docs";
