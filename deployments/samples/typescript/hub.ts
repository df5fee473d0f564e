// Calls the service: tokens are renewed in time, once for all callers, and what may pass is tried again.
type Tokens = { AccessToken: string; RefreshToken: string; ExpiresIn: number };
type Answer = { status: number; headers: Headers; text: string; body?: unknown };

const passing = new Set([0, 429, 500, 502, 503, 504]);
const maxAnswer = 16 << 20;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export class Hub {
  private tokens?: Tokens & { useUntil: number };
  private renewal?: Promise<string | Answer>;

  constructor(private readonly url: string, private readonly apiKey: string) {
    this.url = url.replace(/\/+$/, "");
    this.apiKey = apiKey.trim();
    if (!/^[!-~]+$/.test(this.apiKey)) throw new Error("SUPPLYHUB_API_KEY is empty, or has characters that no key has");
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    let renewed = false;
    for (let attempt = 1, pause = 1000; ; attempt++) {
      const token = await this.token();
      const refused = typeof token !== "string";
      const answer = refused ? token : await this.send(method, path, body, { authorization: `Bearer ${token}` });
      if (answer.status >= 200 && answer.status < 300 && !refused) return answer.body as T;
      if (answer.status === 401 && !refused && !renewed) {
        renewed = true;
        if (this.tokens?.AccessToken === token) this.tokens.useUntil = 0;
      } else if (passing.has(answer.status) && attempt < 5) {
        await sleep(Math.max(pause * (0.75 + Math.random() / 2), 1000 * Math.min(60, Number(answer.headers.get("retry-after")) || 0)));
        pause *= 2;
      } else {
        throw new Error(`${refused ? "no token for " : ""}${method} ${path}: ${answer.status} ${answer.text} (request id ${answer.headers.get("x-request-id")})`);
      }
    }
  }

  // The access token, or the answer that refused one.
  private async token(): Promise<string | Answer> {
    if (this.tokens && Date.now() < this.tokens.useUntil) return this.tokens.AccessToken;
    this.renewal ??= this.renew().finally(() => (this.renewal = undefined)); // one renewal for everyone who waits
    return this.renewal;
  }

  private async renew(): Promise<string | Answer> {
    const asked = Date.now();
    const refreshToken = this.tokens?.RefreshToken;
    this.tokens = undefined; // a refresh token works once
    let answer: Answer | undefined;
    if (refreshToken) answer = await this.send("POST", "/api/external-auth/refresh", { refreshToken }, {});
    // Refused, or its answer was lost: never repeat it.
    if (answer?.status !== 200) answer = await this.send("POST", "/api/external-auth/token", undefined, { "x-api-key": this.apiKey });
    if (answer.status !== 200) return answer;
    const tokens = answer.body as Tokens;
    const life = tokens.ExpiresIn * 1000;
    this.tokens = { ...tokens, useUntil: asked + life - Math.min(60_000, life / 2) };
    return tokens.AccessToken;
  }

  // status is 0 when there was no answer, or a success that is no JSON: a firewall's page.
  private async send(method: string, path: string, body: unknown, headers: Record<string, string>): Promise<Answer> {
    const init: RequestInit = { method, headers, redirect: "manual", signal: AbortSignal.timeout(90_000) };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { ...headers, "content-type": "application/json" };
    }
    try {
      const response = await fetch(this.url + path, init);
      const text = await whole(response);
      return { status: response.status, headers: response.headers, text, body: response.ok && text ? JSON.parse(text) : undefined };
    } catch (error) {
      if (error instanceof RangeError) throw error;
      return { status: 0, headers: new Headers(), text: String(error) };
    }
  }
}

async function whole(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "", size = 0;
  for await (const part of response.body ?? []) {
    if ((size += part.length) > maxAnswer) throw new RangeError("the answer is over 16 MiB");
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}
