// Prints the nanoseconds that one Allow() of golang.org/x/time/rate takes, measured for so many
// milliseconds.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

func main() {
	milliseconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	limiter := rate.NewLimiter(1e9, 1<<40)
	begin := time.Now()
	checks := 0
	for time.Since(begin) < time.Duration(milliseconds)*time.Millisecond {
		for i := 0; i < 10000; i++ {
			if !limiter.Allow() {
				panic("refused")
			}
		}
		checks += 10000
	}
	fmt.Println(float64(time.Since(begin).Nanoseconds()) / float64(checks))
}
