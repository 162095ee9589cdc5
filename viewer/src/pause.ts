/** A pause between two requests. */
export const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));
