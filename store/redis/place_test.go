package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/store/storetest"
)

func TestBankIsAPlace(t *testing.T) {
	server := storetest.StartRedis(t)
	var n atomic.Int64
	banktest.Run(t, func(t *testing.T) bank.Place {
		t.Helper()
		return openBank(t, server.URL()+fmt.Sprintf("?prefix=place%d", n.Add(1)))
	})
}
