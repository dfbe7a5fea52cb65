// The address of the documentation, for error messages. An address and not a path, because the
// npm package does not contain the pages.

export const DOCS = "https://github.com/tenure-dev/tenure/blob/HEAD/docs";
