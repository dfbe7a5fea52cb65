// Advice for messages about a server that cannot be reached, by the system's error code.

const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "No server listens there: check host and port",
  ENOTFOUND: "This host name is unknown: check the URL",
  EAI_AGAIN: "The host name could not be looked up: check the URL and the name server",
};

/** `otherwise` is the advice for other codes. */
export function reachHint(code: string, otherwise: string): string {
  return HINTS[code] ?? otherwise;
}

/** Whether a connection error is about TLS: a certificate, or TLS on one side only. */
export function isAboutTls(code: string, message: string): boolean {
  return /SSL|TLS|EPROTO|CERT|wrong version number|packet length|self.signed/i.test(
    `${code} ${message}`,
  );
}
