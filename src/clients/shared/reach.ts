// For stores on a server: what to check when it cannot be reached, by the system's own error code.

const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "Nobody listens there: check host and port",
  ENOTFOUND: "This host name is unknown: check the URL",
  EAI_AGAIN: "The host name could not be looked up: check the URL and the name server",
};

/** `otherwise` is for a code that says nothing certain. */
export function reachHint(code: string, otherwise: string): string {
  return HINTS[code] ?? otherwise;
}

/** Whether an error of a connection is about TLS: a certificate, or one side that does not speak it. */
export function isAboutTls(code: string, message: string): boolean {
  return /SSL|TLS|EPROTO|CERT|wrong version number|packet length|self.signed/i.test(
    `${code} ${message}`,
  );
}
