package caller

import "github.com/gin-gonic/gin"

// SupplierID returns the id of the supplier that calls; empty: no supplier does.
func SupplierID(c *gin.Context) string { return From(c.Request.Context()).SupplierID }
