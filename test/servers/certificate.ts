// Creates a self-signed certificate for 127.0.0.1 and localhost. Every TLS server gets a new one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { findPath } from "./engine.ts";
import { needEngine } from "./given.ts";
import { runTool, type User } from "./launch.ts";

export interface Certificate {
  /** The certificate that a client has to trust, as PEM text. */
  readonly ca: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** Writes the certificate and its key into `folder`. Only `user` can read the key. */
export async function makeCertificate(folder: string, user?: User): Promise<Certificate> {
  const openssl = findPath(await needEngine("openssl"), "server");
  const certFile = join(folder, "cert.pem");
  const keyFile = join(folder, "key.pem");
  await runTool(
    [
      ...[openssl, "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=tenure-test"],
      ...["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
      ...["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
      ...["-keyout", keyFile, "-out", certFile],
    ],
    { folder, user },
  );
  return { ca: readFileSync(certFile, "utf8"), certFile, keyFile };
}
