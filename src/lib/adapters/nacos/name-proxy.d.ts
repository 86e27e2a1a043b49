/** The part of the nacos SDK that only speaks HTTP; its package has no types for it. */
declare module 'nacos-naming/lib/naming/proxy.js' {
  interface HttpClient {
    request(
      url: string,
      options: { method: string; headers: Record<string, string>; data: Record<string, string> },
    ): Promise<{ status: number; data: string }>;
  }

  interface Logger {
    debug(...values: unknown[]): void;
    info(...values: unknown[]): void;
    warn(...values: unknown[]): void;
    error(...values: unknown[]): void;
  }

  export default class NameProxy {
    constructor(options: {
      logger: Logger;
      serverList: string;
      namespace: string;
      ssl: boolean;
      httpclient: HttpClient;
    });
    registerService(
      groupedName: string,
      groupName: string,
      instance: {
        clusterName: string;
        ip: string;
        port: number;
        weight: number;
        enabled: boolean;
        healthy: boolean;
        ephemeral: boolean;
        metadata: Readonly<Record<string, string>>;
      },
    ): Promise<string>;
    deregisterService(
      groupedName: string,
      instance: { clusterName: string; ip: string; port: number; ephemeral: boolean },
    ): Promise<string>;
    queryList(groupedName: string, clusters: string, udpPort: number, healthyOnly: boolean): Promise<string>;
  }
}
