/* A program for WASI preview 1, as C compilers make it: a core module. It says what it was given. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    char line[256];
    for (int at = 1; at < count; at++) {
        printf("%s\n", words[at]);
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("> %s", line);
    }
    if (count > 1 && strcmp(words[1], "fail") == 0) {
        fputs("it did not work\n", stderr);
        return 3;
    }
    if (count > 2 && strcmp(words[1], "read") == 0) {
        FILE *file = fopen(words[2], "r");
        if (file == NULL) {
            perror(words[2]);
            return 1;
        }
        while (fgets(line, sizeof line, file) != NULL) {
            printf("%s", line);
        }
    }
    return 0;
}
