/** What goes into the header `Authorization` of each request to the API server. */
export interface Authorization {
  header(): Promise<string>;
  /** The server answered 401. Returns whether another try may fare better (a cached token was dropped). */
  rejected(): boolean;
}

/** A bearer token that does not change, e.g. one of the local stack's users. */
export const staticToken = (token: string): Authorization => ({
  header: async () => `Bearer ${token}`,
  rejected: () => false,
});
