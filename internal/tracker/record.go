package tracker

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is how a field is written on the wire, whatever the type of the column that it is read from.
type kind int

const (
	textField    kind = iota // string
	integerField             // int
	numberField              // number
	boolField                // boolean
	dateField                // YYYY-MM-DD
	timeField                // HH:mm:ss
)

// kinds say of each kind which JSON a file may have for it (false of both booleans), how messages about a file name it,
// how a value of it is written, and which type a column is best given.
var kinds = [...]struct {
	json               jsontext.Kind
	said, written, sql string
}{
	textField:    {'"', "a string", "text", "text"},
	integerField: {'0', "an integer", "integer", "bigint"},
	numberField:  {'0', "a number", "number", "double precision"},
	boolField:    {'f', "a boolean", "true or false (CSV: also 1 or 0)", "boolean"},
	dateField:    {'"', "a day of the calendar (YYYY-MM-DD)", "day, YYYY-MM-DD", "date"},
	timeField:    {'"', "a time of day (HH:mm:ss)", "time of day, HH:mm:ss", "time"},
}

// String returns the kind as messages about a file name it.
func (k kind) String() string { return kinds[k].said }

// field is one field of a record. Its name is the wire's and the column's.
type field struct {
	name string
	kind kind
}

// The listings are chosen and ordered by these. The first two are columns of every view and no field of a record.
const (
	columnID       = "id"
	columnLoadDate = "dt_carga"
	columnDevice   = "imei"
	columnPingDate = "data_de_ping"
	columnPingTime = "hora_de_ping"
)

// fields returns the fields of a record in the order of the specification. Queries, encoder and loader all follow this
// list.
func fields() []field {
	list := []field{
		{"dispositivo", textField}, {"material", textField}, {"identificador", integerField}, {"cnpj", textField},
		{"planejado", boolField}, {"endereco", textField}, {"latitude", numberField}, {"longitude", numberField},
	}
	add := func(k kind, names ...string) {
		for _, name := range names {
			list = append(list, field{name, k})
		}
	}
	add(boolField, "ligado", "sem_sinal", "desligado", "em_estoque", "nao_positivado", "alerta_inicial",
		"alerta_moderado", "alerta_critico")
	add(integerField, columnDevice)
	add(dateField, "data_de_captura", columnPingDate, "data_de_positivacao", "data_de_recebimento", "data_captura")
	add(timeField, "hora_de_captura", columnPingTime, "hora_de_positivacao", "hora_captura")
	add(textField, "nome_do_pdv", "canal", "regiao", "projeto", "loja_alvo", "rede", "categoria",
		"cnpj_da_loja", "razao_social_da_loja", "nome_fantasia_da_loja",
		"rua_positivacao", "cep_positivacao", "cidade_positivacao", "estado_positivacao", "bairro_positivacao",
		"logradouro_positivacao", "numero_positivacao", "complemento_positivacao",
		"latitude_positivacao", "longitude_positivacao", "latitude_rastreada", "longitude_rastreada",
		"endereco_rastreado", "emails_para_notificar")
	add(integerField, "perc_bateria")
	return list
}

// columns returns the columns that every view must have.
func columns() []string {
	return append([]string{columnID, columnLoadDate}, fieldNames()...)
}

// normalize returns a value of a file as the store keeps it, or what is wrong with it.
func normalize(k kind, text []byte) (value []byte, detail string) {
	switch k {
	case integerField:
		return normalInteger(string(bytes.TrimSpace(text)))
	case numberField:
		f, ok := parseNumber(text)
		if !ok {
			return nil, "must be a number"
		}
		return strconv.AppendFloat(nil, f, 'g', -1, 64), ""
	case boolField:
		return normalBool(text)
	case dateField:
		if !validDate(text) {
			return nil, "must be a day of the calendar, written YYYY-MM-DD"
		}
		return text, ""
	case timeField:
		if len(text) != timeLength || !validTime(text) {
			return nil, "must be a time of day, written HH:mm:ss"
		}
		return text, ""
	default:
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			return nil, "must be UTF-8 text without NUL"
		}
		return text, ""
	}
}

// normalInteger returns an integer. One that a spreadsheet has shortened is not what it was.
func normalInteger(text string) (value []byte, detail string) {
	if whole, ok := cutZeroFraction(text); ok {
		text = whole
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), ""
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, "eE") {
		return nil, "must be an integer with all its digits: give the cells the number format 0 and save the file again"
	}
	return nil, "must be an integer, written in digits alone"
}

// normalBool returns a truth value as both engines take it.
func normalBool(text []byte) (value []byte, detail string) {
	switch string(bytes.ToLower(bytes.TrimSpace(text))) {
	case "true", "t", "1", "verdadeiro":
		return []byte("1"), ""
	case "false", "f", "0", "falso":
		return []byte("0"), ""
	}
	return nil, "must be true or false"
}
