/* Words with any bytes, as the harness passes them in arguments. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Puts the bytes in the place of \xHH; the length that is left. */
static inline size_t unescape(char* word) {
  char* to = word;
  for (const char* from = word; *from != 0;) {
    unsigned byte;
    if (sscanf(from, "\\x%2x", &byte) == 1) {
      *to++ = (char)byte;
      from += 4;
    } else {
      *to++ = *from++;
    }
  }
  *to = 0;
  return (size_t)(to - word);
}
