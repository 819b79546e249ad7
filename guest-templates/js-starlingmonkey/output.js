// Write failures to standard error.

// The host's 64-bit integers are BigInts.
export const numbersAre64Bit = false;

export const writeError = (text) => console.error(text);
