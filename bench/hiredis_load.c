/* Sends one command again and again through hiredis, pipelined by hand, and measures the replies.
 *
 *   hiredis_load SOCKET KEYS CALLERS SERVER_PID WARM_UP SECONDS WORD...
 *   hiredis_load SOCKET KEYS CALLERS fill WORD...
 *
 * The words are a command, in which \xHH is the byte HH. "__rand_int__" in them becomes a random
 * number below KEYS, of 12 digits, as redis-benchmark writes it. CALLERS commands are under way at
 * once: each reply that has arrived is followed by one more command, and what one read brought
 * leaves in one write. `fill` sends the command once for each number. Prints one line of JSON; an
 * error reply ends the program.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/escaped_word.h"
#include "support/load_clock.h"

enum { max_words = 64, digits = 12 };

static const char placeholder[] = "__rand_int__";

struct load {
  redisContext* connection;
  int words;
  const char* word[max_words];
  size_t length[max_words];
  int numbers; /* where digits go */
  char* number[max_words];
  uint32_t keys;
  uint32_t random;
  uint64_t callers;
  uint64_t sent;
  uint64_t replies;
  uint64_t* started; /* by the number of the call modulo `callers`; 0: not measured */
};

static void fail(const char* what, const char* why) {
  fprintf(stderr, "hiredis_load: %s: %s\n", what, why);
  exit(1);
}

static void read_words(struct load* l, int count, char** words) {
  if (count > max_words) fail("arguments", "too many words");
  for (int i = 0; i < count; ++i) {
    l->word[i] = words[i];
    l->length[i] = unescape(words[i]);
    char* at = strstr(words[i], placeholder);
    if (at != NULL) l->number[l->numbers++] = at;
  }
  l->words = count;
}

static uint32_t next_random(struct load* l) {
  l->random ^= l->random << 13;
  l->random ^= l->random >> 17;
  l->random ^= l->random << 5;
  return l->random % l->keys;
}

static void append(struct load* l, uint32_t number, int timed) {
  for (int i = 0; i < l->numbers; ++i) {
    uint32_t rest = number;
    for (int d = digits - 1; d >= 0; --d, rest /= 10) l->number[i][d] = (char)('0' + rest % 10);
  }
  if (redisAppendCommandArgv(l->connection, l->words, l->word, l->length) != REDIS_OK) {
    fail("append", l->connection->errstr);
  }
  l->started[l->sent++ % l->callers] = timed ? now_ns() : 0;
}

/* Flushes, reads once, and takes the replies that are there; the number of replies. */
static uint64_t exchange(struct load* l, struct latency_histogram* latencies) {
  redisContext* c = l->connection;
  for (int done = 0; !done;) {
    if (redisBufferWrite(c, &done) != REDIS_OK) fail("write", c->errstr);
  }
  if (redisBufferRead(c) != REDIS_OK) fail("read", c->errstr);
  const uint64_t before = l->replies;
  for (void* found = NULL;; ++l->replies) {
    if (redisReaderGetReply(c->reader, &found) != REDIS_OK) fail("reply", c->reader->errstr);
    if (found == NULL) break;
    const redisReply* reply = found;
    if (reply->type == REDIS_REPLY_ERROR) fail("error reply", reply->str);
    const uint64_t start = l->started[l->replies % l->callers];
    if (start != 0 && latencies != NULL) latency_add(latencies, now_ns() - start);
    freeReplyObject(found);
  }
  return l->replies - before;
}

static void fill(struct load* l) {
  uint32_t next = 0;
  while (l->replies < l->keys) {
    while (next < l->keys && l->sent - l->replies < l->callers) append(l, next++, 0);
    exchange(l, NULL);
  }
}

static void measure(struct load* l, pid_t server, double warm_up, double seconds) {
  static struct latency_histogram latencies;
  struct load_snapshot begin = {0};
  int measuring = 0;
  /* As in weir_load: of many callers, one check in 16 is timed. */
  const uint64_t stride = l->callers <= 64 ? 1 : 16;
  double until = clock_seconds(CLOCK_MONOTONIC) + warm_up;
  uint64_t enough = l->callers; /* replies, at least */
  for (uint64_t due = l->callers;;) {
    for (; due > 0; --due) append(l, next_random(l), l->sent % stride == 0);
    due = exchange(l, measuring ? &latencies : NULL);
    if (clock_seconds(CLOCK_MONOTONIC) < until || l->replies < enough) continue;
    if (measuring) break;
    measuring = 1;
    begin = take_snapshot(l->replies, server);
    until = begin.time + seconds;
    enough = l->replies + l->callers;
  }
  const struct load_snapshot end = take_snapshot(l->replies, server);
  while (l->replies < l->sent) exchange(l, NULL); /* so that the server's counts end there, too */
  print_load(&begin, &end, &latencies, 0, l->replies);
}

int main(int count, char** words) {
  if (count < 6) return 2;
  struct load l = {0};
  l.random = 2463534242u;
  l.keys = (uint32_t)strtoul(words[2], NULL, 10);
  l.callers = strtoull(words[3], NULL, 10);
  l.started = calloc(l.callers, sizeof *l.started);
  l.connection = redisConnectUnix(words[1]);
  if (l.keys == 0 || l.started == NULL) return 2;
  if (l.connection == NULL || l.connection->err != 0) fail("connect", words[1]);
  if (strcmp(words[4], "fill") == 0) {
    read_words(&l, count - 5, words + 5);
    fill(&l);
  } else {
    if (count < 8) return 2;
    read_words(&l, count - 7, words + 7);
    measure(&l, (pid_t)strtol(words[4], NULL, 10), strtod(words[5], NULL), strtod(words[6], NULL));
  }
  redisFree(l.connection);
  free(l.started);
  return 0;
}
