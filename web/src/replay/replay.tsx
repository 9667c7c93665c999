// Replay: the packets of one run on their way.

export function Replay({ theme }: { theme: string }) {
  return <main id="main" tabIndex={-1}>{theme}</main>;
}
